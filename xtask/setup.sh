# What ./run and ./test share: bringing a fresh Debian 12 or 13 machine to where Cenote builds.
# Sourced, not run. Everything that is already there is left alone, so a second run is quick.

# The oldest Rust that builds the workspace; the same number stands in Cargo.toml.
RUST_NEEDED=1.95

say() { printf '%s\n' "$*"; }

give_up() {
    printf '\n%s\n' "$*" >&2
    exit 1
}

# Runs a command as root: directly, or by sudo where there is one.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        return 1
    fi
}

# Installs the Debian packages among the arguments that are not installed yet. Fails if it cannot.
install_missing() {
    local package
    missing=()
    command -v dpkg-query >/dev/null 2>&1 || {
        say "This is not Debian: if something is missing, it is one of: $*"
        return 0
    }
    for package in "$@"; do
        case "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" in
            *"ok installed") ;;
            *) missing+=("$package") ;;
        esac
    done
    [ ${#missing[@]} = 0 ] && return 0
    say "Installing ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update &&
        as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get -qq install --no-install-recommends "${missing[@]}" >/dev/null
}

# Packages without which nothing goes on.
need_packages() {
    local missing
    install_missing "$@" ||
        give_up "These packages could not be installed: ${missing[*]}
Install them as root (apt-get install ${missing[*]}) and run this again."
}

# Packages without which some tests say that they are left out.
want_packages() {
    local missing
    install_missing "$@" ||
        say "These packages could not be installed: ${missing[*]}
Tests that need them are left out."
}

# Whether a program prints a version of at least RUST_NEEDED as its second word.
is_new_enough() {
    local version
    version=$("$1" --version 2>/dev/null | awk 'NR == 1 { print $2 }')
    [ -n "$version" ] || return 1
    [ "$(printf '%s\n%s\n' "$RUST_NEEDED" "$version" | sort -V | head -n 1)" = "$RUST_NEEDED" ]
}

# Both programs: Debian has packages with an old rustc beside a rustup's cargo.
have_rust() { is_new_enough cargo && is_new_enough rustc; }

# Makes sure that `cargo` is there and new enough, for this shell and its children.
need_rust() {
    have_rust && return 0
    if [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
        PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
        export PATH
        have_rust && return 0
    fi
    say "Rust $RUST_NEEDED or newer is needed; installing the stable toolchain with rustup"
    if ! command -v rustup >/dev/null 2>&1; then
        # Debian 13 has a package; for Debian 12 there is Rust's own installer.
        if apt-cache show rustup >/dev/null 2>&1 &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install rustup >/dev/null; then
            :
        else
            need_packages ca-certificates curl
            curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
                sh -s -- -y --quiet --no-modify-path --profile minimal \
                    --default-toolchain stable -c rustfmt -c clippy || rust_is_up_to_you
            PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
            export PATH
        fi
    fi
    have_rust || rustup toolchain install stable --profile minimal -c rustfmt -c clippy ||
        rust_is_up_to_you
    have_rust || rustup default stable || rust_is_up_to_you
    have_rust || rust_is_up_to_you
}

rust_is_up_to_you() {
    give_up "Rust $RUST_NEEDED could not be installed, perhaps because this machine reaches no
download server. Install Rust $RUST_NEEDED or newer by the way your site has for it, so that
\`cargo --version\` says so, and run this again."
}

# The compiler is for the C parts of two dependencies: zstd and libdeflate.
need_build_tools() {
    need_packages build-essential pkg-config "$@"
    need_rust
}

# Builds that write, map and execute what they made; a second run finds nothing to do.
files=60
[ "$SIZE" = small ] && files=12

mkdir c
cd c
for number in $(seq $files); do
    printf '#include <stdio.h>\nint f%d(int x) { printf("%%d\\n", x); return x * %d; }\n' \
        "$number" "$number" >"f$number.c"
done
{
    for number in $(seq $files); do echo "int f$number(int);"; done
    echo "int main(void) { long s = 0;"
    for number in $(seq $files); do echo "s += f$number($number);"; done
    echo "return s == $((files * (files + 1) * (2 * files + 1) / 6)) ? 0 : 1; }"
} >main.c
printf 'O=$(patsubst %%.c,%%.o,$(wildcard f*.c))\nprog: main.o libx.a\n\tcc -o $@ $^\n' >Makefile
printf 'libx.a: $(O)\n\tar rcs $@ $^\n' >>Makefile
make -s -j2
./prog >/dev/null
make -q
touch f1.c
make -s && ./prog | tail -1
cd ..

if command -v cargo >/dev/null; then
    mkdir -p rust/src rust/inner/src
    cd rust
    printf '[package]\nname = "outer"\nversion = "0.1.0"\nedition = "2021"\n' >Cargo.toml
    printf '[dependencies]\ninner = { path = "inner" }\n[workspace]\n' >>Cargo.toml
    printf '[package]\nname = "inner"\nversion = "0.1.0"\nedition = "2021"\n' >inner/Cargo.toml
    echo 'fn main() { println!("{}", inner::two() + 2); }' >src/main.rs
    echo 'pub fn two() -> u32 { 2 } #[test] fn is_two() { assert_eq!(two(), 2); }' >inner/src/lib.rs
    unset CARGO_TARGET_DIR RUSTFLAGS
    cargo build -q --offline
    [ "$(cargo run -q --offline)" = 4 ]
    cargo test -q --offline -p inner
    cargo build --offline 2>&1 | grep -q Finished
    ! cargo build --offline 2>&1 | grep -q Compiling
    sed -i 's/+ 2/+ 3/' src/main.rs
    [ "$(cargo run -q --offline)" = 5 ]
fi

# Runs a test suite that makes pools of its own: with our commands where programs look for those of
# OpenZFS, and with a server for remote logins to this machine, in mounts and a network apart. A
# daemon of its own starts there, so that what it mounts is seen.
export CENOTE_SOCKET="$SCRATCH/own-socket"
mkdir "$SCRATCH/sbin" "$SCRATCH/ssh"
for name in zfs zpool; do ln -s "$(readlink -f "$(command -v $name)")" "$SCRATCH/sbin/$name"; done
ssh-keygen -q -t ed25519 -N '' -f "$SCRATCH/ssh/host"
cat >"$SCRATCH/sshd" <<SSHD
ListenAddress 127.0.0.1
ListenAddress ::1
HostKey $SCRATCH/ssh/host
PermitRootLogin yes
MaxSessions 100
MaxStartups 100
SetEnv CENOTE_SOCKET=$CENOTE_SOCKET CENOTE_SETTINGS= LC_ALL=C.UTF-8
SSHD
# What runs by sudo uses the same daemon.
mkdir "$SCRATCH/sudo"
echo 'Defaults !env_reset, !secure_path' >"$SCRATCH/sudo/cenote"
chmod 440 "$SCRATCH/sudo/cenote"
cat >"$SCRATCH/inside" <<INSIDE
set -eu
mount -t overlay none -o "lowerdir=$SCRATCH/sbin:/usr/sbin" /usr/sbin
mkdir -p $HOME/.ssh /run/sshd
if [ -d /etc/sudoers.d ]; then
    mount -t overlay none -o "lowerdir=$SCRATCH/sudo:/etc/sudoers.d" /etc/sudoers.d
fi
mount -t tmpfs -o mode=700 none $HOME/.ssh
ssh-keygen -q -t rsa -N '' -f $HOME/.ssh/id_rsa
cp $HOME/.ssh/id_rsa.pub $HOME/.ssh/authorized_keys
cat >$HOME/.ssh/config <<CONFIG
Host *
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
CONFIG
ip link set lo up
/usr/sbin/sshd -f "$SCRATCH/sshd" -o PidFile="$SCRATCH/sshd.pid"
trap 'kill \$(cat "$SCRATCH/sshd.pid")' EXIT
. "$SCRATCH/tests"
INSIDE

# run FAILING: runs the tests that standard input has the commands of, which say what failed as
# Python's unittest does; other cases than FAILING, a line for each, must pass.
run() {
    cat >"$SCRATCH/tests"
    unshare -mn bash "$SCRATCH/inside" >"$SCRATCH/said" 2>&1 || true
    total=$(sed -n 's/^Ran \([0-9]*\) tests\? in .*/\1/p' "$SCRATCH/said")
    sed -nE 's/^(FAIL|ERROR): ([^ ]+) .*/\2/p' "$SCRATCH/said" | sort -u >"$SCRATCH/failed"
    echo "$((total - $(wc -l <"$SCRATCH/failed"))) of $total cases passed; not:"
    cat "$SCRATCH/failed"
    [ "$total" -gt 0 ]
    printf '%s\n' "$1" | awk 'NF {print $1}' | sort >"$SCRATCH/known"
    if [ -n "$(comm -23 "$SCRATCH/failed" "$SCRATCH/known")" ]; then
        head -n 400 "$SCRATCH/said"
        tail -n 200 "$SCRATCH/said"
        exit 1
    fi
}

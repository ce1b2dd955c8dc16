# Makes the pool of files that `bench read` reads, in a guest with the OpenZFS kernel module.
set -e
zpool create -o ashift=12 -O atime=off -O mountpoint=/b bf /dev/vdb
zfs create -o compression=off bf/off
zfs create -o compression=lz4 bf/lz4
zfs create -o compression=zstd bf/zstd
zfs create -o recordsize=16K -o compression=lz4 bf/rec16
zfs create bf/many
cp /mnt/share/data.bin /b/off/data.bin
cp /mnt/share/data.bin /b/lz4/data.bin
head -c 402653184 /mnt/share/data.bin > /b/zstd/data.bin
head -c 268435456 /mnt/share/data.bin > /b/rec16/data.bin
cd /b/many
cat > /tmp/make.pl <<'PERL'
my $n = 0;
for my $directory (0 .. 999) {
    mkdir sprintf("d%03d", $directory);
    for my $file (0 .. 99) {
        open(my $handle, ">", sprintf("d%03d/file-%05d.dat", $directory, $file));
        print $handle ("x" x (1024 + ($n * 7919) % 9216));
        close $handle;
        $n++;
    }
}
PERL
perl /tmp/make.pl
sync

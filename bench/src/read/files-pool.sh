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
cat > /tmp/mk.py <<'P'
import os
n=0
buf=open('/mnt/share/data.bin','rb').read(1<<20)
for d in range(1000):
    os.mkdir('d%03d'%d)
    for f in range(100):
        fd=os.open('d%03d/file-%05d.dat'%(d,f), os.O_CREAT|os.O_WRONLY, 0o644)
        os.write(fd, buf[n%500000:n%500000+1024+(n*7919)%9216]); os.close(fd); n+=1
P
python3 /tmp/mk.py || perl -e 'my $n=0; for my $d (0..999){ mkdir sprintf("d%03d",$d); for my $f (0..99){ open(my $h,">",sprintf("d%03d/file-%05d.dat",$d,$f)); print $h ("x" x (1024+($n*7919)%9216)); close $h; $n++; } }'
sync; zfs list; 

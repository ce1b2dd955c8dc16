# Archives: what was packed and unpacked on the mount is compared with what lies outside.
tree=/usr/share/perl5
[ "$SIZE" = small ] || tree=/usr/include
[ -d "$tree" ] || tree=$SOURCE/docs

tar -C "$tree" -cf a.tar .
mkdir x
tar -C x -xf a.tar
tar -C x -df a.tar
tar -C "$tree" -df a.tar
tar -C x -czf b.tgz .
tar -C "$tree" -dzf b.tgz
mkdir sparse
truncate -s 40M sparse/file
echo middle | dd of=sparse/file bs=1M seek=20 conv=notrunc status=none
echo end | dd of=sparse/file bs=1M seek=39 conv=notrunc status=none
tar -cSf sparse.tar sparse
[ "$(stat -c %s sparse.tar)" -lt 1048576 ]
tar -dSf sparse.tar
mkdir y
tar -C y -xSf sparse.tar
cmp sparse/file y/sparse/file
[ "$(stat -c %b y/sparse/file)" -lt 4096 ]
rm -r x/*
tar -C x -xf a.tar
diff -r --no-dereference "$tree" x

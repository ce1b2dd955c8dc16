# A tree with hard links, ACLs and extended attributes goes in and out again.
tree=${TREE:-/usr}
[ "$SIZE" = small ] && tree=/usr/share/perl5

extra=$SCRATCH/extra
mkdir -p "$extra/sub" in/tree in/extra "$SCRATCH/out"
echo one >"$extra/one"
ln "$extra/one" "$extra/sub/two"
ln -s ../one "$extra/sub/link"
mkfifo "$extra/pipe"
truncate -s 10M "$extra/sparse"
setfacl -m u:1234:r,g:99:rwx "$extra/one"
setfacl -d -m u:1234:rx "$extra/sub"
setfattr -n user.small -v value "$extra/one"
setfattr -n user.large -v "$(head -c 3000 /dev/zero | tr '\0' x)" "$extra/sub"

same() {
    rsync -aHAXn --checksum --itemize-changes --delete "$1/" "$2/" >"$SCRATCH/differences"
    [ ! -s "$SCRATCH/differences" ] || { head -20 "$SCRATCH/differences"; return 1; }
    (cd "$1" && getfattr -R -h -d -m - . | sort) >"$SCRATCH/first"
    (cd "$2" && getfattr -R -h -d -m - . | sort) >"$SCRATCH/second"
    cmp "$SCRATCH/first" "$SCRATCH/second"
}
rsync -aHAX "$tree/" in/tree/
rsync -aHAX "$extra/" in/extra/
same "$tree" in/tree
same "$extra" in/extra
rsync -aHAX in/ "$SCRATCH/out/"
same "$tree" "$SCRATCH/out/tree"
same in/extra "$SCRATCH/out/extra"
# A second run changes nothing, and a deletion is carried over.
[ -z "$(rsync -aHAX --itemize-changes "$tree/" in/tree/)" ]
mkdir -p in/tree/superfluous/deep
rsync -aHAX --delete "$tree/" in/tree/
[ ! -e in/tree/superfluous ]

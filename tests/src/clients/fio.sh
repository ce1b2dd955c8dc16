# Contents checked by the sums that fio puts into its blocks, by each way to write them.
size=64m
[ "$SIZE" = small ] && size=8m

job() { # NAME OPTION...
    local name=$1
    shift
    fio --name="$name" --size=$size --verify=crc32c --do_verify=1 --verify_fatal=1 "$@"
}
job sequential --rw=write --bs=128k --ioengine=psync --end_fsync=1
job random --rw=randwrite --bs=4k --ioengine=psync --fsync=256 --io_size=$size
job mixed --rw=randrw --bsrange=4k-64k --bs_unaligned --ioengine=psync --verify_backlog=64
job parallel --rw=randwrite --bs=16k --ioengine=libaio --iodepth=16 --direct=1 --numjobs=3
job mapped --rw=randwrite --bs=4k --ioengine=mmap --fsync=512
job files --rw=randwrite --bs=8k --nrfiles=50 --ioengine=psync
job synced --rw=write --bs=64k --sync=1 --ioengine=psync --io_size=4m
job large --rw=randwrite --bs=1m --ioengine=psync --end_fsync=1
job buffered --rw=randwrite --bs=512-9k --bs_unaligned --ioengine=psync --fdatasync=100

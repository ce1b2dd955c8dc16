# A database under load is killed, recovers, and finds what it had promised to keep.
seconds=15
[ "$SIZE" = small ] && seconds=3

data=$PWD/data
sockets=$SCRATCH/sockets
for bin in /usr/lib/postgresql/*/bin; do PATH=$bin:$PATH; done
mkdir -p "$sockets"
chown postgres "$sockets" .
as() { (cd / && setpriv --reuid=postgres --regid=postgres --init-groups "$@"); }
start() {
    as pg_ctl -D "$data" -l "$data.log" -s -w start \
        -o "-k $sockets -p 5555 -c listen_addresses= -c shared_buffers=32MB"
}
ask() { as psql -h "$sockets" -p 5555 -AtX -c "$1" bench; }
trap 'as pg_ctl -D "$data" -s -m immediate stop >/dev/null 2>&1 || true' EXIT

as initdb -D "$data" -A trust -k >/dev/null
start
as createdb -h "$sockets" -p 5555 bench
as pgbench -h "$sockets" -p 5555 -i -q -s 4 bench
as pgbench -h "$sockets" -p 5555 -c 4 -j 2 -T "$seconds" bench
before=$(ask 'SELECT count(*), sum(abalance) FROM pgbench_accounts')
as pg_ctl -D "$data" -s -w -m immediate stop
start
[ "$(ask 'SELECT count(*), sum(abalance) FROM pgbench_accounts')" = "$before" ]
balances='(SELECT sum(abalance) FROM pgbench_accounts)'
[ "$(ask "SELECT $balances = (SELECT sum(delta) FROM pgbench_history)")" = t ]
ask 'VACUUM FULL pgbench_accounts'
ask 'REINDEX DATABASE bench'
as pg_ctl -D "$data" -s -w stop
as pg_checksums -c -D "$data"

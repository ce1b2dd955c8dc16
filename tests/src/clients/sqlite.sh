# Each way SQLite has of keeping its promises, and its own check at the end.
rows=50000
[ "$SIZE" = small ] && rows=2000

for journal in delete truncate persist wal; do
    for synchronous in normal full; do
        base=$journal-$synchronous.db
        sqlite3 "$base" >/dev/null <<SQL
PRAGMA journal_mode=$journal; PRAGMA synchronous=$synchronous;
CREATE TABLE t(a INTEGER PRIMARY KEY, b INT, c TEXT);
BEGIN;
WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x<$rows)
    INSERT INTO t SELECT x, x*7919%100003, hex(randomblob(20)) FROM n;
COMMIT;
CREATE INDEX i ON t(b);
UPDATE t SET c=c||'x' WHERE b%3=0;
DELETE FROM t WHERE b%5=0;
SELECT count(*), sum(length(c)) FROM t WHERE b BETWEEN 100 AND 90000;
BEGIN; UPDATE t SET b=b+1; ROLLBACK;
CREATE TABLE s AS SELECT b%100 AS k, count(*) AS n FROM t GROUP BY 1 ORDER BY 2;
VACUUM;
SQL
        for number in 1 2 3 4 5; do
            sqlite3 -cmd '.timeout 20000' "$base" "INSERT INTO t VALUES(NULL, $number, 'x')" &
        done
        wait
        [ "$(sqlite3 "$base" "SELECT count(*) FROM t WHERE c = 'x'")" = 5 ]
        [ "$(sqlite3 "$base" 'PRAGMA integrity_check')" = ok ]
    done
done
# With a mapping instead of reads.
sqlite3 wal-full.db 'PRAGMA mmap_size=100000000; UPDATE t SET b=b+1; SELECT sum(b) FROM t'
[ "$(sqlite3 wal-full.db 'PRAGMA mmap_size=100000000; PRAGMA integrity_check' | tail -1)" = ok ]

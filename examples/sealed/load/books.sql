-- The books of pgbench: whatever was committed, the four sums are the same one.
SELECT 'transactions ' || count(*) FROM pgbench_history;
SELECT 'differences ' || (SELECT count(DISTINCT sum) - 1 FROM (
    SELECT coalesce(sum(delta), 0) AS sum FROM pgbench_history
    UNION ALL SELECT sum(abalance) FROM pgbench_accounts
    UNION ALL SELECT sum(tbalance) FROM pgbench_tellers
    UNION ALL SELECT sum(bbalance) FROM pgbench_branches) AS sums);
SELECT 'state ' || pg_current_wal_insert_lsn() || ' ' || pg_current_snapshot() || ' ' || md5(string_agg(h::text, ',' ORDER BY h.ctid))
FROM pgbench_history AS h;

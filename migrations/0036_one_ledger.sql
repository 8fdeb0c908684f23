-- All items are in one ledger. Builds that know several run on meanwhile: they place no item elsewhere, and begin no
-- move. `seckill migrate --contract` removes the tables.
ALTER TABLE item_homes ADD CONSTRAINT item_homes_one CHECK (shard = 0);
ALTER TABLE item_moves ADD CONSTRAINT item_moves_none CHECK (ended_at IS NOT NULL);

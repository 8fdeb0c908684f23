-- No order leaves the ledger for a file any more. Builds that know the archive run on meanwhile: their archivers are
-- refused here, before they have closed an item. `seckill migrate --contract` removes the tables.
ALTER TABLE archives ADD CONSTRAINT archives_none CHECK (item_id < 0);

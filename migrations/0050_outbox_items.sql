-- Where items lie in shards, a row of the outbox lies beside its items: this is the first of them. NULL in rows of earlier
-- builds.
ALTER TABLE outbox ADD COLUMN item_id BIGINT NULL;

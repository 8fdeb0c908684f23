-- Beside what `seckill migrate` makes in the keyspace `seckill`: the numbers of rows of the outbox, for all shards.
CREATE TABLE outbox_numbers (
    id BIGINT NOT NULL,
    next_id BIGINT NOT NULL,
    cache BIGINT NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB COMMENT = 'vitess_sequence';
INSERT INTO outbox_numbers (id, next_id, cache) VALUES (0, 1, 1000);

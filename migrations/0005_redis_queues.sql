-- The queue of orders in Redis.

-- Which items have one: written before the first order is queued, so that any instance finds what
-- another one left behind. A row goes when its queue is empty and the sale is over.
CREATE TABLE redis_queues (
    item_id BIGINT NOT NULL,
    PRIMARY KEY (item_id)
) ENGINE = InnoDB;

-- Events go to webhooks alone. `seckill migrate --contract` deletes the endpoints that were Redis streams, and the
-- column.
UPDATE event_endpoints SET enabled = FALSE WHERE kind = 'redis-stream';
ALTER TABLE event_endpoints ALTER COLUMN kind SET DEFAULT 'webhook';

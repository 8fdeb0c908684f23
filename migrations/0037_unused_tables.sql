-- Tables that only earlier builds use. `seckill migrate --contract` drops them.
ALTER TABLE receipt_logs COMMENT = 'used by earlier builds only';
ALTER TABLE receipt_queue COMMENT = 'used by earlier builds only';
ALTER TABLE receipt_batches COMMENT = 'used by earlier builds only';
ALTER TABLE room_openings COMMENT = 'used by earlier builds only';

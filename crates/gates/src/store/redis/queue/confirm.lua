-- Writes once more what is known of a queued request, so that WAIT covers the time when it was queued.
-- KEYS[1]  the requests that were queued, a hash: request -> order units
-- ARGV[1]  the request, named by buyer and key
-- ARGV[2]  its order and units
-- ARGV[3]  how long requests are remembered, in milliseconds
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('PEXPIRE', KEYS[1], ARGV[3])

-- Writes once more what is known of a queued request, so that WAIT covers the time when it was queued.
-- Writes nothing when its order is not queued here: a new primary may have lost it.
-- KEYS[1]  the requests that were queued, a hash: request -> order units
-- KEYS[2]  the queued orders, a hash (see push.lua)
-- ARGV[1]  the request, named by buyer and key
-- ARGV[2]  its order and units
-- ARGV[3]  how long requests are remembered at most, in milliseconds
-- ARGV[4]  the field of the order in KEYS[2]
-- Answers 1 when its order is queued.
if redis.call('HEXISTS', KEYS[2], ARGV[4]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1

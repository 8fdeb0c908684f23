-- Tells whether the token still has its permit. There is nothing to prolong.
-- KEYS[1]  the set of holders
-- ARGV[1]  the token
-- Answers  1 if it has, 0 if somebody took it away

return redis.call('SISMEMBER', KEYS[1], ARGV[1])

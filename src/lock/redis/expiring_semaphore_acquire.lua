-- Takes a permit if one is left, after those whose leases have ended were given back.
-- KEYS[1]  the holds: a sorted set of tokens by the end of their leases
-- ARGV[1]  the token, unique to this acquire
-- ARGV[2]  the lease in milliseconds
-- ARGV[3]  how many holders there may be
-- Answers  1 if the token has a permit now, 0 if none is left

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now_us))
-- Ours already if the answer to an earlier try was lost.
if prolong(KEYS[1], ARGV[1], ARGV[2]) then
  return 1
end
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
  return 0
end
hold(KEYS[1], ARGV[1], ARGV[2])
return 1

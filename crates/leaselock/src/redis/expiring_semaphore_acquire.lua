-- Takes a permit if one is left, after those whose leases have ended were given back. After
-- waiters.lua and expiring_holds.lua.
-- KEYS[1]  the holds: a sorted set of tokens by the end of their leases
-- KEYS[2]  the queue, in the same hash slot
-- ARGV[1]  the token, unique to this acquire
-- ARGV[2]  how many holders there may be
-- ARGV[3]  the lease in milliseconds
-- ARGV[4]  the channel on which its process listens, if it is to be in the queue when it is refused
-- ARGV[5]  the number of this attempt
-- Answers  1 if the token has a permit now, 0 if none is left

end_expired(KEYS[1])
-- Ours already if the answer to an earlier try was lost, or by a release.
if not prolong(KEYS[1], ARGV[1], ARGV[3]) then
  if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
    if ARGV[4] ~= '' then
      join(KEYS[2], ARGV[1], false, ARGV[3], '1', ARGV[4], ARGV[5])
    end
    return 0
  end
  hold(KEYS[1], ARGV[1], ARGV[3])
end
redis.call('HDEL', KEYS[2], ARGV[1])
return 1

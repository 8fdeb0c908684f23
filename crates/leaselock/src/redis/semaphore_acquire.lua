-- Takes a permit if one is left. After waiters.lua.
-- KEYS[1]  the set of holders
-- KEYS[2]  the queue, in the same hash slot
-- ARGV[1]  the token, unique to this acquire
-- ARGV[2]  how many holders there may be
-- ARGV[3]  the lease in milliseconds, which limits nothing here
-- ARGV[4]  the channel on which its process listens, if it is to be in the queue when it is refused
-- ARGV[5]  the number of this attempt
-- Answers  1 if the token has a permit now, 0 if none is left

-- Ours already if the answer to an earlier try was lost, or by a release.
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[2]) then
    if ARGV[4] ~= '' then
      join(KEYS[2], ARGV[1], false, ARGV[3], '1', ARGV[4], ARGV[5])
    end
    return 0
  end
  redis.call('SADD', KEYS[1], ARGV[1])
end
redis.call('HDEL', KEYS[2], ARGV[1])
return 1

-- Takes a permit if one is left.
-- KEYS[1]  the set of holders
-- ARGV[1]  the token, unique to this acquire
-- ARGV[2]  how many holders there may be
-- Answers  1 if the token has a permit now, 0 if none is left

if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then
  -- The answer to an earlier try was lost.
  return 1
end
if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('SADD', KEYS[1], ARGV[1])
return 1

-- Gives a permit back if the token has one.
-- KEYS[1]  the set of holders
-- ARGV[1]  the token
-- Answers  1 if given back, 0 if the token has none

if redis.call('SREM', KEYS[1], ARGV[1]) == 0 then
  return 0
end
return 1

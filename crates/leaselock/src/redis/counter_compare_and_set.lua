-- Writes a number if the present one is the expected.
-- KEYS[1]  the number
-- ARGV[1]  the expected number
-- ARGV[2]  the new number
-- Answers  1 if written, 0 if not

-- Texts: numbers of a script are exact to 2^53 only.
if (redis.call('GET', KEYS[1]) or '0') ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2])
return 1

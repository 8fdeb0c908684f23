-- Starts to count down, unless an earlier count is not down to zero.
-- KEYS[1]  the number
-- ARGV[1]  the count
-- ARGV[2]  how long it is kept without a change, in milliseconds
-- Answers  1 if set, 0 if an earlier count is running

if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
if ARGV[1] ~= '0' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return 1

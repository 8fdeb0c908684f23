-- Gives back what a request took, if no other try of the request counts on it.
-- KEYS[1]  the counter, a hash
-- KEYS[2]  the requests that took from it, a hash
-- ARGV[1]  the epoch under which it was taken
-- ARGV[2]  units
-- ARGV[3]  the request
-- Answers 1 when the units went back, 0 otherwise.
if redis.call('HGET', KEYS[2], ARGV[3]) ~= 'first' then
  return 0
end
redis.call('HDEL', KEYS[2], ARGV[3])
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'available', ARGV[2])
return 1

-- Deletes a lock if its value is the given one.
-- KEYS[1]  the lock
-- ARGV[1]  the value
-- Answers  1 if deleted, 0 if not

if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0

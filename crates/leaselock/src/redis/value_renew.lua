-- Starts the lease of a lock anew if its value is the given one. Never creates it.
-- KEYS[1]  the lock
-- ARGV[1]  the value
-- ARGV[2]  the lease in milliseconds
-- Answers  1 if renewed, 0 if not

if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0

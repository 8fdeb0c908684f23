-- Starts the lease of a lock anew if the token holds it. Never creates it.
-- KEYS[1]  the lock
-- ARGV[1]  the owner's token
-- ARGV[2]  the lease in milliseconds
-- Answers  1 if renewed, 0 if the lock is free or someone else's

local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0

-- Frees one server's part of a lock if the token holds it, whatever its try.
-- KEYS[1]  the lock
-- ARGV[1]  the owner's token
-- Answers  1 if freed, 0 if the part is free already or someone else's

local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
  return redis.call('DEL', KEYS[1])
end
return 0

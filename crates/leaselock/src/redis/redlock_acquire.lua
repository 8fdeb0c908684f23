-- Grants one server's part of a lock to a token.
-- KEYS[1]  the lock
-- ARGV[1]  the owner's token, unique to this acquire
-- ARGV[2]  the number of the try, rising
-- ARGV[3]  the lease in milliseconds
-- Answers  1 if the part is ours now, 0 if someone else has it or a later try of ours was here

local held = redis.call('GET', KEYS[1])
if held then
  if string.sub(held, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then
    return 0
  end
  if tonumber(string.sub(held, #ARGV[1] + 2)) > tonumber(ARGV[2]) then
    return 0
  end
end
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2], 'PX', ARGV[3])
return 1

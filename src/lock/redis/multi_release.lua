-- Frees those locks that the token holds.
-- KEYS     the locks, also the names of their channels
-- ARGV[1]  the owner's token
-- Answers  1 if it held all of them, 0 if one is free already or someone else's

local ours = 0
for i = 1, #KEYS do
  if fence_if_ours(KEYS[i], ARGV[1]) then
    ours = ours + 1
    redis.call('DEL', KEYS[i])
    redis.call('PUBLISH', KEYS[i], 'free')
  end
end
return ours == #KEYS and 1 or 0

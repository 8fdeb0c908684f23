-- Starts the leases of several locks anew if the token holds all of them. Never creates one. After
-- multi_names.lua, which says what the keys are.
-- ARGV[1]  the owner's token
-- ARGV[2]  the lease in milliseconds
-- Answers  1 if renewed, 0 if one of them is free or someone else's

for i = 1, #KEYS, 3 do
  if not fence_if_ours(KEYS[i], ARGV[1]) then
    return 0
  end
end
for i = 1, #KEYS, 3 do
  redis.call('PEXPIRE', KEYS[i], ARGV[2])
end
return 1

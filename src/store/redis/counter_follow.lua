-- Tells an item's counter what the ledger did to orders of it, if it still is the load that was
-- seen.
-- KEYS[1]  the counter, a hash: epoch, available, b:<buyer> -> units
-- ARGV[1]  the epoch that the caller saw
-- ARGV[2]  and all further ones: a buyer, and units that came back from it; negative when it has
--          taken them again
-- Answers 1 when it was told, 0 when the counter was loaded again since: the ledger that it was
-- loaded from knows of it already.
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return 0
end
for i = 2, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[1], 'available', ARGV[i + 1])
  -- Orders that came by another gate are not counted here.
  local bought = redis.call('HINCRBY', KEYS[1], 'b:' .. ARGV[i], -ARGV[i + 1])
  if bought <= 0 then
    redis.call('HDEL', KEYS[1], 'b:' .. ARGV[i])
  end
end
return 1

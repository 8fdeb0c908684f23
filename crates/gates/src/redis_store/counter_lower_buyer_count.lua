-- Lowers a buyer's count of an item to the ledger's, if it is above that.
-- KEYS[1]  the counter, a hash: epoch, available, b:<buyer> -> units
-- ARGV[1]  the buyer
-- ARGV[2]  units by the ledger
-- Answers 1 when it was lowered, 0 otherwise.
local bought = redis.call('HGET', KEYS[1], 'b:' .. ARGV[1])
if not bought or tonumber(bought) <= tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'b:' .. ARGV[1], ARGV[2])
return 1

-- Gives buyers who came before the opening their places, while the room is frozen.
-- KEYS as in poll.lua
-- ARGV[1]  the shift of the clock in milliseconds (tests)
-- ARGV[2]  how long the place of a silent buyer is kept, in milliseconds
-- ARGV[3]  how long the keys live without a change, in milliseconds
-- ARGV[4]  1 with the last places, which open the room
-- ARGV[5]  and so on: a buyer, and the place
-- Answers 1; 0 when the room is open already, or was lost: then nothing is written.
if redis.call('HGET', KEYS[1], 'state') ~= 'frozen' then
  return 0
end
local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2] + ARGV[1] * 1000
local now = math.floor(now_us / 1000)
local base = tonumber(redis.call('HGET', KEYS[1], 'base'))
-- Two instances may give the places at once, and one goes on where another was killed. A place that is given stays:
-- the time in KEYS[5] of a buyer who waits aside is no sign of the buyer any more.
local function has_place(buyer, number)
  for key = 3, 4 do
    if tonumber(redis.call('ZSCORE', KEYS[key], buyer) or '-1') == tonumber(number) then
      return true
    end
  end
  return false
end
for at = 5, #ARGV, 2 do
  local buyer, number = ARGV[at], string.format('%.0f', base + ARGV[at + 1])
  local silent_at = tonumber(redis.call('ZSCORE', KEYS[5], buyer) or '0')
  if has_place(buyer, number) then
    -- Nothing is left to do.
  elseif silent_at > now then
    redis.call('ZADD', KEYS[3], number, buyer)
  else
    redis.call('ZADD', KEYS[4], number, buyer)
    redis.call('ZADD', KEYS[5], now + ARGV[2], buyer)
  end
end
if ARGV[4] == '1' then
  redis.call('UNLINK', KEYS[2])
  redis.call('HSET', KEYS[1], 'state', 'open', 'tat', string.format('%.0f', now_us))
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[3])
end
return 1

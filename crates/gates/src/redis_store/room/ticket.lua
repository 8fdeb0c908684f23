-- Whether a ticket is still good.
-- KEYS as in poll.lua
-- ARGV[1]  the buyer
-- ARGV[2]  the end of the ticket, in milliseconds
-- ARGV[3]  the shift of the clock in milliseconds (tests)
-- ARGV[4]  how long a ticket is valid, in milliseconds
-- Answers 1; 0 when the ticket is over, was given back, or was made while the clock was ahead.
local clock = redis.call('TIME')
local now = math.floor(clock[1] * 1000 + clock[2] / 1000) + ARGV[3]
local ticket_end = tonumber(ARGV[2])
if ticket_end <= now or ticket_end > now + ARGV[4] + 1000 then
  return 0
end
return ticket_end <= tonumber(redis.call('ZSCORE', KEYS[9], ARGV[1]) or '0') and 0 or 1

-- A part for scripts that read this server's clock, in microseconds.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]

-- '%.0f', since tostring would write 1.7e+15.
local function text(number)
  return string.format('%.0f', number)
end


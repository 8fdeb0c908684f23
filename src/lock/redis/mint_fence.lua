-- The head of scripts that grant a lock with fences: they are above the last one of their counter
-- and not below the server's clock, so they rise even after the counter was lost. Answers the first
-- of so many; of those that would be above 2^53 - 1, none may be used.
local function mint_fence(counter, kept_ms, fences)
  local time = redis.call('TIME')
  local fence = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local last = tonumber(redis.call('GET', counter) or '0')
  if last >= fence then
    fence = last + 1
  end
  if fence > 9007199254740991 then
    error('FENCE no whole number is left above ' .. string.format('%.0f', last))
  end
  last = math.min(fence + (tonumber(fences) or 1) - 1, 9007199254740991)
  -- '%.0f', since tostring would write 1.7e+15.
  redis.call('SET', counter, string.format('%.0f', last), 'PX', kept_ms)
  return string.format('%.0f', fence)
end


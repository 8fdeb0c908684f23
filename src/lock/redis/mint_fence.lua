-- The head of scripts that grant a lock with fences: they are above the last one of their counter
-- and not below the server's clock, so they rise even after the counter was lost. Answers the first
-- of so many; of those that would be above 2^53 - 1, none may be used.
local function mint_fence(counter, kept_ms, fences)
  local time = redis.call('TIME')
  local fence = time[1] * 1000000 + time[2]
  local last = tonumber(redis.call('GET', counter) or '0')
  if last >= fence then
    fence = last + 1
  end
  if fence > 9007199254740991 then
    error('FENCE no whole number is left above ' .. string.format('%.0f', last))
  end
  -- '%.0f', since tostring would write 1.7e+15.
  local first = string.format('%.0f', fence)
  local new_last, more = first, (tonumber(fences) or 1) - 1
  if more > 0 then
    new_last = string.format('%.0f', math.min(fence + more, 9007199254740991))
  end
  redis.call('SET', counter, new_last, 'PX', kept_ms)
  return first
end

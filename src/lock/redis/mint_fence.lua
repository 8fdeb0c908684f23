-- The head of scripts that grant a lock with a fence: the fence is above the last one of its
-- counter and not below the server's clock, so it rises even after the counter was lost.
local function mint_fence(counter, kept_ms)
  local time = redis.call('TIME')
  local fence = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local last = tonumber(redis.call('GET', counter) or '0')
  if last >= fence then
    fence = last + 1
  end
  if fence > 9007199254740991 then
    error('FENCE no whole number is left above ' .. string.format('%.0f', last))
  end
  -- '%.0f', since tostring would write 1.7e+15.
  local fence_text = string.format('%.0f', fence)
  redis.call('SET', counter, fence_text, 'PX', kept_ms)
  return fence_text
end


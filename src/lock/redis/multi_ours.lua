-- The fence of a lock if the token holds it, else nil; and whether anybody holds it.
local function fence_if_ours(lock, token)
  local held = redis.call('GET', lock)
  if held and string.sub(held, 1, #token + 1) == token .. ':' then
    return string.sub(held, #token + 2), true
  end
  return nil, held ~= false
end


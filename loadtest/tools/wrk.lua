-- Buyers for wrk, which `fire wrk` starts: wrk ... -s wrk.lua URL -- PATH TOKENS THREADS
-- Each has a token of its own, presses, and presses again until the time is over.
local threads = {}

function setup(thread)
  thread:set("number", #threads)
  table.insert(threads, thread)
end

-- Each thread takes its share of the tokens.
function init(args)
  sold, refused, failed = 0, 0, 0
  path = args[1]
  buyers = {}
  local line = 0
  for token in io.lines(args[2]) do
    if line % tonumber(args[3]) == number then
      table.insert(buyers, token)
    end
    line = line + 1
  end
  pressed = 0
end

function request()
  local token = buyers[pressed % #buyers + 1]
  pressed = pressed + 1
  return wrk.format("POST", path, { ["Authorization"] = "Bearer " .. token })
end

function response(status)
  if status == 201 or status == 202 then
    sold = sold + 1
  elseif status == 409 then
    refused = refused + 1
  else
    failed = failed + 1
  end
end

function done()
  for _, name in ipairs({ "sold", "refused", "failed" }) do
    local sum = 0
    for _, thread in ipairs(threads) do
      sum = sum + thread:get(name)
    end
    print(name .. ": " .. sum)
  end
end

local pairs, type, select, error, pcall, unpack, setmetatable = pairs, type, select, error, pcall, unpack, setmetatable
local concat, sort, fmt, rep, sub, gsub, wrap =
  table.concat, table.sort, string.format, string.rep, string.sub, string.gsub, coroutine.wrap
cjson.encode_sparse_array(false, 2, 10) cjson.encode_max_depth(1000) cjson.decode_max_depth(1000)
cjson.encode_number_precision(14) cjson.encode_invalid_numbers(false) cjson.decode_invalid_numbers(true)
math.randomseed(1) redis.setresp(2) collectgarbage('restart')
local libraries = {[_G] = true}
for _, v in pairs(_G) do if type(v) == 'table' then libraries[v] = true end end
-- Values of many sizes: elements, tables in tables, tables that occur twice in each other.
local function T(n) local t = {} for i = 1, n do t[i] = i end return t end
local function D(n) local t = {} for i = 1, n do t = {t} end return t end
local function O(n) local t = {a = 1} for i = 1, n do t = {a = t} end return t end
local function G(n) local t = {1} for i = 1, n do t = {t, t} end return t end
local self = {} self[1] = self
-- Calls within calls.
local function nest(n, f) if n == 0 then return f() end return pcall(nest, n - 1, f) end
local function subs(n, f) if n == 0 then return f() end return gsub('a', 'a', function() return subs(n - 1, f) end) end
local function threads(n, f) if n == 0 then return f() end return wrap(threads)(n - 1, f) end
local show
local function one(v, depth)
  local kind = type(v)
  if kind == 'string' then
    v = #v <= 80 and v or fmt('%d:%s..%s', #v, sub(v, 1, 40), sub(v, -20))
    return (gsub(v, '[%c\128-\255]', function(c) return fmt('\\%03d', string.byte(c)) end))
  elseif kind == 'number' then
    return v ~= v and 'nan' or fmt('%.14g', v)
  elseif kind ~= 'table' then
    return (kind == 'boolean' or kind == 'nil') and tostring(v) or kind
  elseif libraries[v] then
    return 'library'
  elseif depth == 0 then
    return 'table'
  end
  local count, shown = 0, {}
  for k, e in pairs(v) do
    count = count + 1
    if count <= 20 then shown[count] = one(k, 0) .. '=' .. one(e, depth - 1) end
  end
  if count > 20 then return 'table of ' .. count end
  sort(shown)
  return '{' .. concat(shown, ',') .. '}'
end
function show(...)
  local n, shown = select('#', ...), {}
  for i = 1, n < 8 and n or 8 do shown[i] = one((select(i, ...)), 3) end
  return n .. ' ' .. concat(shown, ' ')
end
local out = {}

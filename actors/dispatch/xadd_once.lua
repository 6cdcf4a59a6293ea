-- Append an entry to a stream, once for each delivery.
--
-- KEYS[1]  the stream
-- KEYS[2]  the marker of this delivery, in the same hash slot
-- ARGV[1]  lifetime of the marker in seconds
-- ARGV[2]  '', '~' or '=': no trimming, approximate, exact
-- ARGV[3]  the length to trim to
-- ARGV[4…] field, value, field, value, …
--
-- Returns the id of the entry, preceded by '=' if an earlier attempt appended it and its answer was lost.

local appended = redis.call('GET', KEYS[2])
if appended then
  return '=' .. appended
end

-- A script undoes nothing: without permission to write the marker, nothing is appended. Versions before 7 cannot check.
if redis.acl_check_cmd and not redis.acl_check_cmd('SET', KEYS[2], '', 'EX', ARGV[1]) then
  return redis.error_reply("NOPERM this user has no permissions to run the 'set' command on the marker of a delivery")
end

local command = {'XADD', KEYS[1]}
if ARGV[2] ~= '' then
  command[#command + 1] = 'MAXLEN'
  command[#command + 1] = ARGV[2]
  command[#command + 1] = ARGV[3]
end
command[#command + 1] = '*'
for index = 4, #ARGV do
  command[#command + 1] = ARGV[index]
end

local id = redis.call(unpack(command))
redis.call('SET', KEYS[2], id, 'EX', ARGV[1])
return id

local now = tonumber(ARGV[#ARGV])

// Nobody can own a name under .example, so this one cannot be another project's.
module tollgate.example/tollgate

go 1.19

module weir/tests/franz

go 1.25

require (
	github.com/twmb/franz-go v1.22.1
	github.com/twmb/franz-go/pkg/kadm v1.18.0
)

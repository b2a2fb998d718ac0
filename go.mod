module github.com/wirectl/wirectl

go 1.26.0

require (
	github.com/andybalholm/brotli v1.2.8 // brotli in HTTP
	github.com/bufbuild/protocompile v0.14.1 // compiles .proto files at run time
	github.com/clipperhouse/uax29/v2 v2.7.0 // grapheme clusters
	github.com/fatih/color v1.19.0 // colours of commands
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // tests: checks the JSON scanner
	github.com/go-logr/logr v1.4.4 // the log of OpenTelemetry
	github.com/google/go-cmp v0.7.0 // tests
	github.com/google/jsonschema-go v0.4.3 // checks values against schemas
	github.com/gopacket/gopacket v1.7.7 // packets, TCP
	github.com/itchyny/gojq v0.12.20 // --jq
	github.com/klauspost/compress v1.20.3 // zstd, gzip
	github.com/landlock-lsm/go-landlock v0.11.0 // Landlock in each of its versions
	github.com/mattn/go-runewidth v0.0.31 // cell widths
	github.com/modelcontextprotocol/go-sdk v1.8.0 // wirectl mcp
	github.com/muesli/cancelreader v0.2.2 // reads that Ctrl-C ends
	github.com/nats-io/nats-server/v2 v2.15.2 // the hub: storage, copies, rights
	github.com/nats-io/nats.go v1.55.0 // the hub; leases and workers
	github.com/nats-io/nkeys v0.4.16 // rights in the hub
	github.com/pelletier/go-toml/v2 v2.4.3 // TOML, with the place of each value
	github.com/prometheus/client_golang v1.25.0 // metrics
	github.com/rogpeppe/go-internal v1.16.0 // tests: transcripts
	github.com/sony/gobreaker/v2 v2.4.0 // circuit breaker
	github.com/tailscale/hujson v0.0.0-20260727124030-b80ff77dac4f // JSON with comments
	github.com/urfave/cli/v2 v2.27.7 // command line
	github.com/xrash/smetrics v0.0.0-20240521201337-686a1a2994c1 // suggestions for misspelt names
	go.opentelemetry.io/otel v1.47.0 // OTLP
	go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp v1.47.0 // OTLP
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.47.0 // OTLP
	go.opentelemetry.io/otel/metric v1.47.0 // OTLP
	go.opentelemetry.io/otel/sdk v1.47.0 // OTLP
	go.opentelemetry.io/otel/sdk/metric v1.47.0 // OTLP
	go.opentelemetry.io/otel/trace v1.47.0 // OTLP
	go.opentelemetry.io/proto/otlp v1.11.1 // OTLP
	go.starlark.net v0.0.0-20260908191801-89a6a09411d5 // code without Python
	go.uber.org/goleak v1.3.0 // tests: goroutines that are left
	golang.org/x/sync v0.24.0 // goroutine groups
	golang.org/x/sys v0.49.0 // poll, splice, socket options, namespaces, Windows jobs
	golang.org/x/term v0.47.0 // the terminal
	google.golang.org/protobuf v1.36.12 // generated messages, descriptors, protojson
	pgregory.net/rapid v1.3.0 // tests: properties
)

require (
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.31.0 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace v1.47.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	golang.org/x/oauth2 v0.37.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260928230214-8a89bd6388cc // indirect
	kernel.org/pub/linux/libs/security/libcap/psx v1.2.77 // indirect
)

require (
	github.com/aws/aws-sdk-go-v2 v1.42.0 // signed URLs
	github.com/aws/smithy-go v1.27.1 // signed URLs
	github.com/aymanbagabas/go-osc52/v2 v2.0.1 // indirect
	github.com/aymanbagabas/go-udiff v0.3.1 // indirect
	github.com/charmbracelet/bubbles v1.0.0 // the terminal
	github.com/charmbracelet/bubbletea v1.3.10 // the terminal
	github.com/charmbracelet/colorprofile v0.4.1 // indirect
	github.com/charmbracelet/lipgloss v1.1.0 // the terminal
	github.com/charmbracelet/x/ansi v0.11.6 // the terminal
	github.com/charmbracelet/x/cellbuf v0.0.15 // indirect
	github.com/charmbracelet/x/exp/golden v0.0.0-20241011142426-46044092ad91 // indirect
	github.com/charmbracelet/x/exp/teatest v0.0.0-20251215102626-e0db08df7383 // tests: the monitor
	github.com/charmbracelet/x/term v0.2.2 // indirect
	github.com/clipperhouse/displaywidth v0.9.0 // indirect
	github.com/clipperhouse/stringish v0.1.1 // indirect
	github.com/coder/websocket v1.8.15 // WebSockets
	github.com/cpuguy83/go-md2man/v2 v2.0.7 // manual pages
	github.com/creack/pty v1.1.24 // tests: the monitor
	github.com/erikgeiser/coninput v0.0.0-20211004153227-1c3628e74d0f // indirect
	github.com/goccy/go-yaml v1.19.2 // strict YAML, with the place of each value and error
	github.com/itchyny/timefmt-go v0.1.9 // indirect
	github.com/lucasb-eyer/go-colorful v1.3.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/mattn/go-localereader v0.0.1 // indirect
	github.com/muesli/ansi v0.0.0-20230316100256-276c6243b2f6 // indirect
	github.com/muesli/termenv v0.16.0 // the terminal
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3 // tests: metrics
	github.com/prometheus/common v0.72.0 // tests: metrics
	github.com/quic-go/quic-go v0.65.0 // QUIC
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/xo/terminfo v0.0.0-20220910002029-abceb7e1c41e // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // HPACK, header rules, bounded listeners, seccomp programs, NO_PROXY, SOCKS
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // rate limits
	golang.org/x/tools v0.52.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/grpc v1.85.0 // gRPC
)

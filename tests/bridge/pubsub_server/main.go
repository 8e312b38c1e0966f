// A Pub/Sub server for the bridge's tests: in memory, on loopback, on a free port that it prints.
package main

import (
	"fmt"
	"io"
	"os"

	"cloud.google.com/go/pubsub/v2/pstest"
)

func main() {
	server := pstest.NewServerWithAddress("127.0.0.1:0")
	defer server.Close()
	fmt.Println(server.Addr)
	// The parent holds our standard input: when it ends, however it ends, so do we.
	io.Copy(io.Discard, os.Stdin)
}

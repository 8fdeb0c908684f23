use super::*;
use crate::temporary::TemporaryDirectory;

#[tokio::test]
async fn a_cluster_finds_its_data_again_and_takes_a_new_node() {
    let folder = TemporaryDirectory::make(Path::new("x")).unwrap();
    let options = || RedisClusterOptions {
        data_dir: Some(folder.path().join("cluster")),
        ..RedisClusterOptions::default()
    };
    let cluster = RedisCluster::start(options()).await.unwrap();
    let owner = cluster.owner(12_182, None).await.unwrap();
    let () = cluster.nodes[owner].run(&["SET", "foo", "7"]).await.unwrap();
    cluster.stop().await;
    drop(cluster);

    let mut cluster = RedisCluster::start(options()).await.unwrap();
    let owner = cluster.owner(12_182, None).await.unwrap();
    let kept: String = cluster.nodes[owner].run(&["GET", "foo"]).await.unwrap();
    assert_eq!(kept, "7");
    let added = cluster.add_node().await.unwrap();
    let refused = cluster.nodes[added].run::<String>(&["GET", "foo"]).await.unwrap_err();
    assert_eq!(refused.code(), Some("MOVED"), "{refused}");
    cluster.stop().await;
}

#[tokio::test]
async fn sentinels_name_a_primary() {
    let group = RedisSentinels::start(None).await.unwrap();
    assert_eq!(group.primary().await, Some(0));
    let () = group.servers[0].run(&["SET", "kept", "7"]).await.unwrap();
    let refused = group.servers[1].run::<()>(&["SET", "kept", "8"]).await.unwrap_err();
    assert_eq!(refused.code(), Some("READONLY"), "{refused}");
    group.stop().await;
}

#[tokio::test]
async fn a_server_with_tls_takes_nothing_else() {
    let options = RedisOptions {
        certificates: Some(Certificates::make(true).unwrap()),
        ..RedisOptions::temporary()
    };
    let server = RedisServer::start(options).await.unwrap();
    assert!(server.tcp_url().starts_with("rediss://"));
    let plain = server.tcp_url().replace("rediss", "redis");
    let plain = redis::Client::open(plain).unwrap().get_multiplexed_async_connection().await;
    assert!(plain.is_err());
    server.stop().await;
}
